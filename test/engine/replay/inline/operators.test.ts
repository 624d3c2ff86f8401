import { alsoInlineInFull } from "../../inline.ts";

await alsoInlineInFull(
  "operate/retry",
  "operate/restart",
  "operate/pause",
  "operate/cancel",
  "operate/cut-off",
  "operate/cancel-reading",
  "operate/undo-stopped",
);
