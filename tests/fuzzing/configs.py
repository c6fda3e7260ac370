"""A small training config of each task, with most keys written out."""

SPEECH_CONFIG = """
task = "speech"
seed = 1
[data]
dev = "data/dev.jsonl"
dev_most = 2
noise = "data/dev.jsonl"
noise_times = 0.5
longest = 20.0
cache_gigabytes = 0.1
[[data.train]]
manifest = "data/train.jsonl"
times = 1.0
[model.features]
mels = 80
[model.encoder]
channels = 4
state_size = 8
layers = 1
layers_before_reduction = 1
dropout = 0.0
[model.attention]
kind = "additive"
size = 8
heads = 1
location_features = 2
location_width = 15
temperature = 1.0
window_back = 9
window_ahead = 9
[model.decoder]
embedding_size = 4
state_size = 8
readout_size = 8
layers = 1
[model.ctc]
subframes = 1
[batches]
size = 20.0
most = 4
sorted_epochs = 1
[augment]
speeds = [1.0]
noise_share = 0.3
noise_snr_db = [5.0, 20.0]
gain_db = 0.0
time_masks = 1
time_width = 10
time_share = 0.2
frequency_masks = 1
frequency_width = 4
feature_noise = 0.0
tract_lengths = [1.0, 1.0]
[loss]
ctc = 0.3
label_smoothing = 0.1
entropy = 0.1
entropy_target = 0.5
coverage = 0.1
diagonality = 0.1
diagonality_steps = 10
scheduled_sampling = 0.1
scheduled_sampling_from = 0
[training]
rate = 1e-3
warmup_steps = 2
decay_share = 0.5
weight_decay = 0.01
clip = 1.0
accumulate = 1
average = 0.9
keep = 1
patience = 0
precision = "fp32"
device = "cpu"
"""

PAIR_CONFIG = """
task = "translation"
seed = 1
[data]
train = "data/pairs.tsv"
dev_share = 0.3
phrases = [["go .", "va !"]]
[model.encoder]
embedding_size = 8
state_size = 8
layers = 1
dropout = 0.1
[model.attention]
kind = "additive"
size = 8
[model.decoder]
embedding_size = 8
state_size = 8
readout_size = 8
[batches]
size = 600.0
most = 64
[training]
rate = 5e-3
average = 0.9
precision = "fp32"
"""

LANGUAGE_CONFIG = """
task = "language"
seed = 1
[data]
train = ["data/train.jsonl", "data/texts.txt"]
dev = "data/dev.jsonl"
words = 20
window = 4
[model]
embedding_size = 4
state_size = 8
vector_size = 4
cutoffs = [6]
dropout = 0.0
[batches]
size = 8.0
[training]
rate = 3e-3
precision = "fp32"
"""
