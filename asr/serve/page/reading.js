// The reading tutor: a page, and how it was read aloud.
import { load, record, setUpSource, wav } from "./recording.js";
import { caller, statusOf } from "./service.js";
import { fill, playWords, wordButton } from "./words.js";

export function setUpReading(panel) {
  const show = statusOf(panel);
  const call = caller();
  const page = panel.querySelector("textarea");
  const speak = panel.querySelector(".speak");
  let stop = null;
  let chunks = [];

  async function check(file) {
    if (!page.value.trim()) {
      show("Paste the page first.", true);
      page.focus();
      return;
    }
    show("Comparing …");
    const form = new FormData();
    form.append("file", file);
    form.append("text", page.value);
    try {
      const reading = await call("v1/read", form);
      present(panel, file, reading);
      show("");
    } catch (error) {
      show.failure(error);
    }
  }

  async function toggle() {
    speak.disabled = true;
    try {
      if (stop) {
        await stop();
        stop = null;
        await check(wav(chunks));
      } else {
        chunks = [];
        stop = await record((samples) => chunks.push(samples));
        show("Recording; read the page aloud, then press Stop.");
      }
    } catch (error) {
      show(`No microphone: ${error.message}`, true);
    }
    speak.classList.toggle("on", stop !== null);
    speak.textContent = stop ? "Stop" : "Read aloud";
    speak.disabled = false;
  }

  setUpSource(panel, check, toggle);
}

function present(panel, file, reading) {
  panel.querySelector(".result").hidden = false;
  const audio = panel.querySelector("audio");
  load(audio, file);
  showFigures(panel.querySelector(".figures"), reading);
  const lines = Map.groupBy(reading.words, (word) => word.line);
  const numbers = [...lines.keys()];
  const paragraphs = [...lines.values()].map((words, index) => {
    const line = document.createElement("p");
    line.classList.toggle("begins", index > 0 && numbers[index] > numbers[index - 1] + 1);
    fill(line, words.map(elementOf));
    return line;
  });
  const place = panel.querySelector(".reading");
  place.replaceChildren(...paragraphs);
  playWords(audio, [...place.querySelectorAll("button")]);
}

function showFigures(list, reading) {
  const figures = [
    ["words reached", reading.reached],
    ["of them right", `${Math.round(100 * reading.accuracy)} %`],
    ["words a minute", Math.round(reading.words_per_minute)],
    ...Object.entries(reading.counts),
    ["hesitations", reading.hesitations.length],
  ];
  list.replaceChildren(...figures.map(([name, value]) => {
    const row = document.createElement("div");
    const term = document.createElement("dt");
    const description = document.createElement("dd");
    term.textContent = name;
    description.textContent = value;
    row.append(term, description);
    return row;
  }));
}

function elementOf(word) {
  if (word.start === null) {
    const skipped = document.createElement("s");
    skipped.className = "word skipped";
    const spoken = document.createElement("span");
    spoken.className = "unseen";
    spoken.textContent = ", skipped";
    skipped.append(word.word, spoken);
    return skipped;
  }
  const said = word.status === "misread" && word.heard ? ` as ${word.heard}` : "";
  const label = word.status === "right" ? word.word : `${word.word}, ${word.status}${said}`;
  const button = wordButton(word.word, word.start, word.end, label);
  button.classList.add(word.status);
  if (said) {
    const ruby = document.createElement("ruby");
    const above = document.createElement("rt");
    above.textContent = word.heard;
    ruby.append(word.word, above);
    button.replaceChildren(ruby);
  }
  return button;
}
