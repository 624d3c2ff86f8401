import { alsoInline } from "../../inline.ts";

await alsoInline("workflow/run-ends", "workflow/undo-heard", "recorder/ends", "recorder/trouble");
