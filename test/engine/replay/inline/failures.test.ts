import { alsoInlineInFull } from "../../inline.ts";

await alsoInlineInFull("replay/caught", "replay/after-failure", "replay/heard", "replay/late-answers");
