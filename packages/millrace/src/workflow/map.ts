import { MillraceError } from "../contract/errors.ts";
import { EndOfRecord } from "./end-of-record.ts";

const DEFAULT_CONCURRENCY = 10;

export async function mapItems<Item, Output>(
  items: readonly Item[],
  concurrency = DEFAULT_CONCURRENCY,
  each: (item: Item) => Promise<Output>,
): Promise<Output[]> {
  if (!Array.isArray(items))
    throw new MillraceError("config_invalid", "map requires an array of items: convert a Set or a Map first, [...items].");
  if (!Number.isInteger(concurrency) || concurrency < 1) {
    throw new MillraceError("config_invalid", `The concurrency of map must be a whole number of 1 or more, not ${String(concurrency)}.`);
  }
  const outputs: Output[] = new Array(items.length);
  const pending = items.entries();
  let ended: EndOfRecord | undefined;
  const one = async (index: number, item: Item) => {
    outputs[index] = await each(item);
  };
  const worker = async () => {
    for (const [index, item] of pending) {
      await one(index, item).catch((error) => {
        // In an undo, an item that reaches the end of its record does not end the other items.
        if (!(error instanceof EndOfRecord)) throw error;
        ended = error;
      });
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, worker));
  if (ended) throw ended;
  return outputs;
}
