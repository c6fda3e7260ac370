// Tabs, and the name of the model. Each tab has a module of its own.
import { setUpReading } from "./reading.js";
import { call, keepKey } from "./service.js";
import { setUpTranscription } from "./transcription.js";
import { setUpTranslation } from "./translation.js";

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
keepKey(showModel);
showModel();
