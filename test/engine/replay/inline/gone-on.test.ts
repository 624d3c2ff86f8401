import { alsoInline } from "../../inline.ts";

await alsoInline("replay/gone-on", "replay/kept-caught");
