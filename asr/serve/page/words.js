// Words that are played when clicked, and marked while they are played.

/** Let the arrow keys move within a row of buttons, of which the Tab key reaches one. */
export function moveByArrows(buttons) {
  const steps = { ArrowRight: 1, ArrowLeft: -1 };
  buttons.forEach((button, at) => {
    button.tabIndex = at === 0 ? 0 : -1;
    button.addEventListener("focus", () => {
      for (const each of buttons) each.tabIndex = each === button ? 0 : -1;
    });
    button.addEventListener("keydown", (event) => {
      const next = event.key === "Home" ? 0 : event.key === "End" ? buttons.length - 1
        : event.key in steps ? at + steps[event.key] : -1;
      if (!buttons[next]) return;
      event.preventDefault();
      buttons[next].focus();
    });
  });
}

/** Play a word on a click; call `onWord` with the index of each word as it is played. */
export function playWords(audio, buttons, onWord = () => {}) {
  let until = Infinity;
  let last = -1;
  moveByArrows(buttons);
  buttons.forEach((button, at) => {
    button.addEventListener("click", () => {
      until = Number(button.dataset.end);
      audio.currentTime = Number(button.dataset.start);
      audio.play();
      onWord(at);
    });
  });
  function follow() {
    const time = audio.currentTime;
    if (time >= until) {
      until = Infinity;
      audio.pause();
    }
    buttons.forEach((button, at) => {
      const now = !audio.paused && Number(button.dataset.start) <= time
        && time < Number(button.dataset.end);
      button.classList.toggle("now", now);
      if (now && at !== last) onWord(last = at);
    });
    if (!audio.paused) requestAnimationFrame(follow);
  }
  audio.onplay = follow;
  audio.onpause = () => {
    until = Infinity;
    follow();
  };
}

/** Return a button for a word; start and end in seconds. */
export function wordButton(text, start, end, label) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "word";
  button.textContent = text;
  button.dataset.start = start;
  button.dataset.end = end;
  button.ariaLabel = label;
  button.title = label;
  return button;
}

/** Put elements into a parent, separated by spaces. */
export function fill(parent, elements) {
  parent.replaceChildren(...elements.flatMap((each) => [each, " "]));
}
