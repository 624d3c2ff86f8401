import { json } from "node:stream/consumers";
import Parser from "rss-parser";

// What a feed reader's library makes of a feed.

const { xml } = (await json(process.stdin)) as { xml: string };
console.log(JSON.stringify(await new Parser().parseString(xml)));
