import { posix } from "node:path";

/** The name of the binding for a workflow or queue, such as `PLACE_ORDER` for `place-order`. */
export const upper = (name: string) => name.replaceAll("-", "_").toUpperCase();

export const pascal = (name: string) => name.replaceAll(/(?:^|-)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

export const camel = (name: string) => pascal(name).replace(/^./, (letter) => letter.toLowerCase());

export function pathFrom(importer: string, file: string): string {
  const path = posix.relative(posix.dirname(importer), file);
  return path.startsWith(".") ? path : `./${path}`;
}

export const isLane = (queue: string) => queue.startsWith("lane:");

export const ownName = (queue: string) => queue.replace(/^lane:/, "");
