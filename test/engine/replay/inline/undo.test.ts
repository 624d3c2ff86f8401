import { alsoInlineInFull } from "../../inline.ts";

await alsoInlineInFull(
  "operate/undo",
  "operate/undo-crashes",
  "operate/undo-refused",
  "operate/undo-retried",
  "operate/undo-skipped",
  "operate/skip-refused",
  "operate/undo-skip-refused",
  "operate/undo-left-alone",
);
