// What can be explored, in the order of the tabs.
import { comparePanel } from "./compare.js";
import { neighboursPanel, sensesPanel } from "./corpus.js";
import { layersPanel } from "./layers.js";
import { tasksPanel } from "./tasks.js";
import { wordsPanel } from "./words.js";

export const PANELS = {
  compare: comparePanel,
  layers: layersPanel,
  words: wordsPanel,
  neighbours: neighboursPanel,
  senses: sensesPanel,
  tasks: tasksPanel,
};
