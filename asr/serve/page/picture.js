// The spectrogram of a segment, and below it the attention of its characters.
import { RATE } from "./recording.js";

const FFT = 512;
const HOP = 160;
const WINDOW = 400;
const DECIBELS = 70; // shown below the loudest point
const MARGIN = 74; // pixels left of both panels
const SOUND_HEIGHT = 170;
const LANES = 2; // of the words between the panels
const LANE = 17;
const LABELS_HEIGHT = LANES * LANE + 4;
const ROW = 5; // pixels a character
const TALLEST = 440; // pixels of the attention
const STOPS = [[0, 0, 4], [60, 15, 110], [140, 41, 129], [222, 73, 104], [254, 159, 109], [252, 253, 191]];

/** Draw a segment: {start, end, characters, weights}; words: those within it; samples: of all. */
export function draw(canvas, samples, segment, words) {
  const width = canvas.clientWidth || 800;
  const rows = segment.weights.length;
  const below = Math.min(TALLEST, Math.max(60, rows * ROW));
  const scale = window.devicePixelRatio || 1;
  const height = SOUND_HEIGHT + LABELS_HEIGHT + below;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.aspectRatio = `${width} / ${height}`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const style = getComputedStyle(canvas);
  context.fillStyle = style.color;
  context.font = `12px ${style.fontFamily}`;
  const inner = width - MARGIN;
  const first = Math.round(segment.start * RATE);
  const part = samples.subarray(first, Math.round(segment.end * RATE));
  paint(context, spectrogram(part), MARGIN, 0, inner, SOUND_HEIGHT);
  const perSecond = inner / (segment.end - segment.start);
  drawAxis(context);
  drawWords(context, segment, words, perSecond, width);
  const top = SOUND_HEIGHT + LABELS_HEIGHT;
  if (rows) {
    paint(context, weights(segment.weights), MARGIN, top, inner, below);
    drawRows(context, segment.characters, top, below);
  }
}

function paint(context, image, x, y, width, height) {
  const canvas = new OffscreenCanvas(image.width, image.height);
  canvas.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = image.height > 200;
  context.drawImage(canvas, x, y, width, height);
}

function drawAxis(context) {
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (let khz = 2; khz < 8; khz += 2) {
    context.fillText(`${khz} kHz`, MARGIN - 6, SOUND_HEIGHT * (1 - khz / 8));
  }
}

/** Write the words between the panels, with lines at their edges in the sound. */
function drawWords(context, segment, words, perSecond, width) {
  context.textAlign = "center";
  const free = Array(LANES).fill(MARGIN);
  for (const word of words) {
    const left = MARGIN + (word.start - segment.start) * perSecond;
    const right = MARGIN + (word.end - segment.start) * perSecond;
    const middle = (left + right) / 2;
    const half = context.measureText(word.word).width / 2;
    const lane = free.findIndex((each) => middle - half >= each);
    if (lane >= 0 && middle + half <= width) {
      context.fillText(word.word, middle, SOUND_HEIGHT + 2 + (lane + 0.5) * LANE);
      free[lane] = middle + half + 4;
    }
    context.globalAlpha = 0.35;
    context.save();
    context.fillStyle = "white";
    context.fillRect(left, 0, 1, SOUND_HEIGHT);
    context.fillRect(right, 0, 1, SOUND_HEIGHT);
    context.restore();
    context.globalAlpha = 1;
  }
}

/** Write each word at the row of its first character. */
function drawRows(context, characters, top, height) {
  const row = height / characters.length;
  context.textAlign = "right";
  let free = top;
  characters.join("").replace(/\S+/g, (word, at) => {
    const y = top + (at + word.length / 2) * row;
    if (y - 6 >= free) {
      context.fillText(word.slice(0, 11), MARGIN - 6, y);
      free = y + 7;
    }
    return word;
  });
}

function weights(rows) {
  const image = new ImageData(rows[0].length, rows.length);
  rows.forEach((row, y) => row.forEach((value, x) => {
    colour(image, y * image.width + x, Math.sqrt(Math.min(1, value)));
  }));
  return image;
}

function spectrogram(samples) {
  const frames = Math.max(1, Math.floor((samples.length - WINDOW) / HOP) + 1);
  const image = new ImageData(frames, FFT / 2);
  const power = new Float32Array(frames * FFT / 2);
  const real = new Float32Array(FFT);
  const imaginary = new Float32Array(FFT);
  let loudest = -20;
  for (let frame = 0; frame < frames; frame++) {
    real.fill(0);
    imaginary.fill(0);
    for (let k = 0; k < WINDOW; k++) {
      const window = 0.5 - 0.5 * Math.cos(2 * Math.PI * k / (WINDOW - 1));
      real[k] = (samples[frame * HOP + k] ?? 0) * window;
    }
    transform(real, imaginary);
    for (let bin = 0; bin < FFT / 2; bin++) {
      const decibels = 10 * Math.log10(Math.max(1e-12, real[bin] ** 2 + imaginary[bin] ** 2));
      power[bin * frames + frame] = decibels;
      loudest = Math.max(loudest, decibels);
    }
  }
  power.forEach((decibels, at) => {
    const bin = FFT / 2 - 1 - Math.floor(at / frames); // low frequencies at the bottom
    colour(image, bin * frames + at % frames, Math.max(0, 1 + (decibels - loudest) / DECIBELS));
  });
  return image;
}

/** Set a pixel to the colour of a value from 0 to 1. */
function colour(image, pixel, value) {
  const place = value * (STOPS.length - 1);
  const low = STOPS[Math.min(STOPS.length - 2, Math.floor(place))];
  const high = STOPS[Math.min(STOPS.length - 1, Math.floor(place) + 1)];
  const share = place - Math.min(STOPS.length - 2, Math.floor(place));
  for (let k = 0; k < 3; k++) image.data[4 * pixel + k] = low[k] + share * (high[k] - low[k]);
  image.data[4 * pixel + 3] = 255;
}

/** The fast Fourier transform in place, radix 2. */
function transform(real, imaginary) {
  const size = real.length;
  for (let at = 1, other = 0; at < size; at++) {
    let bit = size >> 1;
    for (; other & bit; bit >>= 1) other ^= bit;
    other ^= bit;
    if (at < other) {
      [real[at], real[other]] = [real[other], real[at]];
      [imaginary[at], imaginary[other]] = [imaginary[other], imaginary[at]];
    }
  }
  for (let length = 2; length <= size; length <<= 1) {
    const angle = -2 * Math.PI / length;
    for (let start = 0; start < size; start += length) {
      for (let k = 0; k < length / 2; k++) {
        const a = start + k;
        const b = a + length / 2;
        const c = Math.cos(angle * k);
        const s = Math.sin(angle * k);
        const x = real[b] * c - imaginary[b] * s;
        const y = real[b] * s + imaginary[b] * c;
        real[b] = real[a] - x;
        imaginary[b] = imaginary[a] - y;
        real[a] += x;
        imaginary[a] += y;
      }
    }
  }
}
