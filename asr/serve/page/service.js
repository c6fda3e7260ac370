// The calls of the service, its key, and the status lines that say what a call came to.
const key = document.getElementById("key");
key.value = sessionStorage.getItem("key") ?? "";

export function apiKey() {
  return key.value;
}

/** Keep the key for this tab of the browser, and call `changed` whenever it is another one. */
export function keepKey(changed) {
  key.addEventListener("input", () => {
    sessionStorage.setItem("key", key.value);
    changed();
  });
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
export async function call(path, body, signal) {
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
