// A translation, with the attention between its words on both sides.
import { caller, statusOf } from "./service.js";
import { fill, moveByArrows } from "./words.js";

export function setUpTranslation(panel) {
  const show = statusOf(panel);
  const call = caller();
  panel.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = panel.querySelector("textarea").value.trim();
    const to = panel.querySelector("select").value;
    if (!text) {
      show("Write a text first.", true);
      return;
    }
    show("Translating …");
    try {
      const { translations } = await call("v1/translate", { text, to });
      present(panel, translations[0], to);
      show("");
    } catch (error) {
      show.failure(error);
    }
  });
}

function present(panel, found, language) {
  panel.querySelector(".result").hidden = false;
  const source = found.source_words.slice(0, -1).map(elementOf);
  const target = found.target_words.slice(0, -1).map(elementOf);
  const places = [panel.querySelector("#source-words"), panel.querySelector("#target-words")];
  places[0].lang = language === "en" ? "zh" : "en";
  places[1].lang = language;
  fill(places[0], source);
  fill(places[1], target);
  const weight = weightOf(found);
  link(source, target, (at, other) => weight(other, at));
  link(target, source, weight);
  const percent = Math.round(100 * found.confidence);
  panel.querySelector("#confidence").textContent = `Mean probability of a token: ${percent} %.`;
  panel.querySelector("details").hidden = !found.weights;
  panel.querySelector(".matrix").replaceChildren(...found.weights ? [table(found)] : []);
}

/** Return the weight of (target word, source word); of a long text from its links alone. */
function weightOf(found) {
  if (found.weights) return (target, source) => found.weights[target][source];
  const rows = found.links.map((row) => new Map(row.map(({ word, share }) => [word, share])));
  return (target, source) => rows[target].get(source) ?? 0;
}

function elementOf(text) {
  const word = document.createElement("button");
  word.type = "button";
  word.className = "word";
  word.textContent = text;
  return word;
}

/** Shade the words of the other side by their weight while a word is pointed at or focused. */
function link(words, others, weight) {
  function select(at) {
    words.forEach((word, each) => word.classList.toggle("chosen", each === at));
    for (const word of words) word.style.removeProperty("--share");
    others.forEach((word, other) => {
      word.classList.remove("chosen");
      const share = at === null ? 0 : Math.round(100 * weight(at, other));
      word.style.setProperty("--share", `${share}%`);
      if (at !== null && share >= 10) word.title = `${share} %`;
      else word.removeAttribute("title");
    });
  }
  moveByArrows(words);
  words.forEach((word, at) => {
    word.ariaLabel = described(word, others, (other) => weight(at, other));
    word.addEventListener("mouseenter", () => select(at));
    word.addEventListener("focus", () => select(at));
    word.addEventListener("mouseleave", () => select(null));
    word.addEventListener("blur", () => select(null));
  });
}

function described(word, others, weight) {
  const linked = others
    .map((other, at) => [weight(at), other.textContent])
    .filter(([share]) => share >= 0.1)
    .sort(([one], [other]) => other - one)
    .map(([share, text]) => `${text} ${Math.round(100 * share)} %`);
  return `${word.textContent}: ${linked.join(", ") || "no word above 10 %"}`;
}

function table(found) {
  const result = document.createElement("table");
  const head = result.createTHead().insertRow();
  head.append(document.createElement("td"), ...found.source_words.map((word) => heading(word, "col")));
  const body = result.createTBody();
  found.target_words.forEach((word, row) => {
    const line = body.insertRow();
    line.append(heading(word, "row"));
    for (const weight of found.weights[row]) {
      const cell = line.insertCell();
      cell.textContent = weight >= 0.005 ? weight.toFixed(2).replace("0.", ".") : "";
      cell.style.setProperty("--share", `${Math.round(100 * weight)}%`);
    }
  });
  return result;
}

function heading(text, scope) {
  const cell = document.createElement("th");
  cell.scope = scope;
  cell.textContent = text;
  return cell;
}
