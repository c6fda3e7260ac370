// Runs in the audio thread: floats of the microphone to chunks of 16-bit samples.
class Samples extends AudioWorkletProcessor {
  constructor() {
    super();
    this.chunk = new Int16Array(1600); // 0.1 s
    this.filled = 0;
  }

  process([[channel]]) {
    for (const value of channel ?? []) {
      this.chunk[this.filled++] = Math.max(-1, Math.min(1, value)) * 32767;
      if (this.filled === this.chunk.length) {
        this.port.postMessage(this.chunk.slice());
        this.filled = 0;
      }
    }
    return true;
  }
}
registerProcessor("samples", Samples);
