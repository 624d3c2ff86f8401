import { alsoInline } from "../../inline.ts";

await alsoInline("replay/left-behind");
