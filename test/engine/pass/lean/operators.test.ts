import { alsoLeanInFull } from "../../lean.ts";

await alsoLeanInFull(
  "operate/retry",
  "operate/restart",
  "operate/pause",
  "operate/cancel",
  "operate/cut-off",
  "operate/cancel-reading",
  "operate/undo-stopped",
);
