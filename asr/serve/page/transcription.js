// A recording or speech → text with confidence, times, picture and subtitles.
import { draw } from "./picture.js";
import { load, RATE, record, samplesOf, setUpSource, wav } from "./recording.js";
import { apiKey, caller, statusOf } from "./service.js";
import { fill, playWords, wordButton } from "./words.js";

export function setUpTranscription(panel) {
  const show = statusOf(panel);
  const call = caller();
  const speak = panel.querySelector(".speak");
  let session = null;

  async function transcribe(file) {
    show(`Transcribing ${file.name} …`);
    const form = new FormData();
    form.append("file", file);
    form.append("response_format", "verbose_json");
    for (const each of ["word", "segment"]) form.append("timestamp_granularities[]", each);
    for (const each of ["attention", "subtitles"]) form.append("include[]", each);
    try {
      const found = await call("v1/audio/transcriptions", form);
      await present(panel, file, found);
      show(found.text ? `${found.words.length} words, ${found.duration.toFixed(1)} s.`
        : "No speech was found.");
    } catch (error) {
      show.failure(error);
    }
  }

  async function toggle() {
    speak.disabled = true;
    try {
      if (session) await session.stop();
      else session = await listen();
    } catch (error) {
      show(error.message, true);
      ended();
    }
    speak.disabled = false;
  }

  function ended() {
    session = null;
    speak.classList.remove("on");
    speak.textContent = "Speak";
  }

  /** Send the microphone to the service, and show what comes; null: the service has refused. */
  async function listen() {
    const address = new URL("v1/live", location.href);
    address.protocol = address.protocol.replace("http", "ws");
    const socket = new WebSocket(address);
    const chunks = [];
    const found = { words: [], attention: [] };
    beginLive(panel);
    await opened(socket);
    socket.send(JSON.stringify({
      type: "start", rate: RATE, attention: true, subtitles: true, api_key: apiKey(),
    }));
    socket.onmessage = async (event) => {
      const message = JSON.parse(event.data);
      if (message.type === "error") show(message.error.message, true);
      if (message.type === "partial") panel.querySelector(".partial").textContent = message.text;
      if (message.type === "final") {
        found.words.push(...message.words);
        found.attention.push(message.attention);
        panel.querySelector(".partial").textContent = "";
        const added = buttonsOf(message.words).flatMap((each) => [each, " "]);
        panel.querySelector(".text").append(...added);
      }
      if (message.type === "done") {
        Object.assign(found, message);
        await present(panel, wav(chunks), found);
        show(found.words.length ? `${found.words.length} words.` : "No speech was found.");
      }
    };
    const recording = record((samples) => {
      chunks.push(samples);
      if (socket.readyState === WebSocket.OPEN) socket.send(samples);
    }).catch((error) => {
      socket.close();
      throw new Error(`No microphone: ${error.message}`);
    });
    const closed = new Promise((resolve) => { socket.onclose = resolve; });
    closed.then(async () => {
      ended();
      const stop = await recording;
      await stop();
    }).catch(() => {}); // no microphone: shown below
    const stop = await Promise.race([recording, closed.then(() => null)]);
    if (!stop) return null;
    speak.classList.add("on");
    speak.textContent = "Stop";
    show("Listening; text is final at pauses.");
    return {
      stop: async () => {
        await stop();
        show("Finishing …");
        socket.send(JSON.stringify({ type: "stop" }));
      },
    };
  }

  setUpSource(panel, transcribe, toggle);
}

function opened(socket) {
  return new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = () => reject(new Error("the service cannot be reached"));
  });
}

function beginLive(panel) {
  panel.querySelector(".result").hidden = false;
  panel.querySelector("audio").hidden = true;
  panel.querySelector("figure").hidden = true;
  panel.querySelector(".text").replaceChildren();
  panel.querySelector(".downloads").replaceChildren();
}

function buttonsOf(words) {
  return words.map((word) => {
    const percent = word.confidence === null ? "" : `, confidence ${Math.round(100 * word.confidence)} %`;
    const button = wordButton(word.word, word.start, word.end, word.word + percent);
    const doubt = word.confidence === null ? 0 : Math.min(1, 1.4 * (1 - word.confidence));
    button.style.setProperty("--share", `${Math.round(100 * doubt)}%`);
    return button;
  });
}

/** Show a result: {text, words, attention, srt, vtt} of a file. */
async function present(panel, file, found) {
  const audio = panel.querySelector("audio");
  load(audio, file);
  audio.hidden = false;
  panel.querySelector(".result").hidden = false;
  panel.querySelector(".partial").textContent = "";
  const buttons = buttonsOf(found.words);
  fill(panel.querySelector(".text"), buttons);
  offer(panel.querySelector(".downloads"), file, found);
  const picture = await pictureOf(panel.querySelector("figure"), file, found);
  playWords(audio, buttons, (at) => picture(found.words[at].start));
  picture(found.words[0]?.start ?? 0);
}

/** Return what draws the segment at a time. */
async function pictureOf(figure, file, found) {
  const samples = await samplesOf(file).catch(() => null); // a format that browsers do not read
  figure.hidden = !samples || !found.attention.length;
  if (figure.hidden) return () => {};
  const canvas = figure.querySelector("canvas");
  let shown = null;
  return (time) => {
    const segment = found.attention.find((each) => time < each.end) ?? found.attention.at(-1);
    if (segment === shown) return;
    shown = segment;
    const words = found.words.filter((word) => word.start >= segment.start && word.end <= segment.end);
    canvas.ariaLabel = `Spectrogram and attention from ${segment.start.toFixed(1)} to `
      + `${segment.end.toFixed(1)} seconds: ${segment.characters.join("")}`;
    draw(canvas, samples, segment, words);
  };
}

/** Offer the text and subtitles as files. */
function offer(place, file, found) {
  const name = file.name.replace(/\.[^.]*$/, "");
  const json = JSON.stringify({ text: found.text, words: found.words }, null, 1);
  const files = { txt: `${found.text}\n`, srt: found.srt, vtt: found.vtt, json };
  place.replaceChildren(...Object.entries(files).map(([ending, content]) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = ending.toUpperCase();
    button.ariaLabel = `Download as ${ending.toUpperCase()}`;
    button.addEventListener("click", () => save(content, `${name}.${ending}`));
    return button;
  }));
}

function save(content, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "text/plain" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
