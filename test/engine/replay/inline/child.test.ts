import { alsoInline } from "../../inline.ts";

await alsoInline("workflow/child");
