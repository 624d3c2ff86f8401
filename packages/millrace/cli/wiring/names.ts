import { posix } from "node:path";

/** A name as its binding: `place-order` is bound as `PLACE_ORDER`. */
export const upper = (name: string) => name.replaceAll("-", "_").toUpperCase();

/** A name as a class: `PlaceOrder`. */
export const pascal = (name: string) => name.replaceAll(/(?:^|-)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

/** A name as a constant: `placeOrder`. */
export const camel = (name: string) => pascal(name).replace(/^./, (letter) => letter.toLowerCase());

/** The path of a file as another one imports it. */
export function pathFrom(importer: string, file: string): string {
  const path = posix.relative(posix.dirname(importer), file);
  return path.startsWith(".") ? path : `./${path}`;
}

/** True for what stands for a lane instead of a queue of the platform's. */
export const isLane = (queue: string) => queue.startsWith("lane:");

/** The name of a queue or a lane, as its author gave it. */
export const ownName = (queue: string) => queue.replace(/^lane:/, "");
