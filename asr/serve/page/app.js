// Tabs, the key, and the calls of the service. Each tab has a module of its own.
import { setUpReading } from "./reading.js";
import { setUpTranscription } from "./transcription.js";
import { setUpTranslation } from "./translation.js";

const key = document.getElementById("key");
key.value = sessionStorage.getItem("key") ?? "";
key.addEventListener("input", () => {
  sessionStorage.setItem("key", key.value);
  showModel();
});

export function apiKey() {
  return key.value;
}

/** Return `call` for a tab: each call aborts the one before it. */
export function caller() {
  let controller = null;
  return (path, body) => {
    controller?.abort();
    controller = new AbortController();
    return call(path, body, controller.signal);
  };
}

/** Send a form, or JSON, and return the answer as an object; throw what the service says. */
async function call(path, body, signal) {
  const headers = key.value ? { Authorization: `Bearer ${key.value}` } : {};
  if (body && !(body instanceof FormData)) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, {
    method: body ? "POST" : "GET",
    headers,
    signal,
    body: body && !(body instanceof FormData) ? JSON.stringify(body) : body,
  });
  const found = await answer.json().catch(() => ({}));
  if (answer.ok) return found;
  if (answer.status === 401) document.getElementById("key-box").open = true;
  throw new Error(found.error?.message ?? `status ${answer.status}`);
}

/** Return what shows a message in the status line of a tab. */
export function statusOf(panel) {
  const line = panel.querySelector(".status");
  function show(text, isError = false) {
    line.textContent = text;
    line.classList.toggle("error", isError);
  }
  /** Show what went wrong, unless a later call took the place of this one. */
  show.failure = (error) => {
    if (error.name !== "AbortError") show(error.message, true);
  };
  return show;
}

function setUpTabs() {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  function select(tab) {
    for (const each of tabs) {
      each.ariaSelected = String(each === tab);
      each.tabIndex = each === tab ? 0 : -1;
      document.getElementById(each.getAttribute("aria-controls")).hidden = each !== tab;
    }
  }
  const steps = { ArrowRight: 1, ArrowLeft: -1 };
  tabs.forEach((tab, at) => {
    tab.addEventListener("click", () => select(tab));
    tab.addEventListener("keydown", (event) => {
      if (!(event.key in steps)) return;
      const next = tabs[(at + steps[event.key] + tabs.length) % tabs.length];
      select(next);
      next.focus();
    });
  });
}

async function showModel() {
  try {
    const models = await call("v1/models");
    document.getElementById("model").textContent = models.data[0].id;
  } catch {
    // the first call that matters says why
  }
}

setUpTabs();
setUpTranscription(document.getElementById("transcribe"));
setUpReading(document.getElementById("read"));
setUpTranslation(document.getElementById("translate"));
showModel();
