import { alsoInlineInFull } from "../../inline.ts";

await alsoInlineInFull("workflow/still-at-work");
