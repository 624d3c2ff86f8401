import { alsoLean } from "../../lean.ts";

await alsoLean("workflow/run-ends", "workflow/undo-heard", "recorder/ends", "recorder/trouble");
