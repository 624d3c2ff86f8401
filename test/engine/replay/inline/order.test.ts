import { alsoInlineInFull } from "../../inline.ts";

await alsoInlineInFull("replay/course", "replay/races", "replay/parallel", "replay/branches");
