import { json } from "node:stream/consumers";
import Parser from "rss-parser";

// A feed reader library's parse of a feed.

const { xml } = (await json(process.stdin)) as { xml: string };
console.log(JSON.stringify(await new Parser().parseString(xml)));
