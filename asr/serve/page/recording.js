// Recordings: from a file, dropped or chosen, or from the microphone.

export const RATE = 16000;

/** Call `onFile` with a file that is chosen or dropped, `onSpeak` when the button is pressed. */
export function setUpSource(panel, onFile, onSpeak) {
  const drop = panel.querySelector(".drop");
  const input = drop.querySelector("input");
  input.addEventListener("change", () => {
    if (input.files[0]) onFile(input.files[0]);
    input.value = "";
  });
  for (const name of ["dragenter", "dragover"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.add("over");
    });
  }
  for (const name of ["dragleave", "drop"]) {
    drop.addEventListener(name, () => drop.classList.remove("over"));
  }
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) onFile(event.dataTransfer.files[0]);
  });
  panel.querySelector(".speak").addEventListener("click", onSpeak);
}

/** Start the microphone; `onSamples` gets Int16Array chunks at RATE. Returns what stops it. */
export async function record(onSamples) {
  if (!navigator.mediaDevices) throw new Error("the microphone needs https, or localhost");
  const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
  const context = new AudioContext({ sampleRate: RATE });
  async function stop() {
    for (const track of stream.getTracks()) track.stop();
    if (context.state !== "closed") await context.close();
  }
  try {
    await context.audioWorklet.addModule("page/worklet.js");
    const node = new AudioWorkletNode(context, "samples");
    node.port.onmessage = (event) => onSamples(event.data);
    context.createMediaStreamSource(stream).connect(node);
  } catch (error) {
    await stop();
    throw error;
  }
  return stop;
}

/** Return chunks of 16-bit samples as a WAV file. */
export function wav(chunks) {
  const bytes = 2 * chunks.reduce((sum, each) => sum + each.length, 0);
  const header = new DataView(new ArrayBuffer(44));
  const put = (at, text) => [...text].forEach((c, k) => header.setUint8(at + k, c.charCodeAt(0)));
  put(0, "RIFF");
  header.setUint32(4, 36 + bytes, true);
  put(8, "WAVEfmt ");
  header.setUint32(16, 16, true);
  header.setUint16(20, 1, true);
  header.setUint16(22, 1, true);
  header.setUint32(24, RATE, true);
  header.setUint32(28, 2 * RATE, true);
  header.setUint16(32, 2, true);
  header.setUint16(34, 16, true);
  put(36, "data");
  header.setUint32(40, bytes, true);
  return new File([header.buffer, ...chunks], "microphone.wav", { type: "audio/wav" });
}

/** Return the samples of a file at RATE, the channels averaged. */
export async function samplesOf(file) {
  const context = new OfflineAudioContext(1, 1, RATE);
  const audio = await context.decodeAudioData(await file.arrayBuffer());
  const samples = audio.getChannelData(0).slice();
  for (let channel = 1; channel < audio.numberOfChannels; channel++) {
    audio.getChannelData(channel).forEach((value, at) => { samples[at] += value; });
  }
  return samples.map((value) => value / audio.numberOfChannels);
}

/** Let an audio element play a file. */
export function load(audio, file) {
  if (audio.src) URL.revokeObjectURL(audio.src);
  audio.src = URL.createObjectURL(file);
}
