import { alsoInline } from "../../inline.ts";

await alsoInline("pass/left-behind");
