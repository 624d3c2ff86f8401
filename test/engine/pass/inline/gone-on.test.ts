import { alsoInline } from "../../inline.ts";

await alsoInline("pass/gone-on", "pass/kept-caught");
