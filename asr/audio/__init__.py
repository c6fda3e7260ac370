"""Audio: reading, augmentation, features and speech detection."""
