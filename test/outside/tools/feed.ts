import { json } from "node:stream/consumers";
import Parser from "rss-parser";

// The result of a feed reader library for a feed.

const { xml } = (await json(process.stdin)) as { xml: string };
console.log(JSON.stringify(await new Parser().parseString(xml)));
