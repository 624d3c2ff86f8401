// Only data: this file must not import from `src/`.
import type { Alone } from "./prove.ts";

/** The limits of the workflows `lab-one`, `lab-two`, … A key is the first part of a run's name: `proof-one-KEY.0` and `proof-one-KEY.1`. */
export const LIMITS = {
  one: { concurrency: 1 },
  two: { concurrency: 2 },
  throttled: { concurrency: 2, throttle: { limit: 1, periodMs: 1500 } },
  debounced: { concurrency: 1, debounce: { periodMs: 1500 } },
} as const satisfies Record<string, Limits>;

export interface Limits {
  concurrency: number;
  throttle?: { limit: number; periodMs: number };
  debounce?: { periodMs: number };
}

export type Limited = keyof typeof LIMITS;
export const LIMITED = Object.keys(LIMITS) as Limited[];

/** Another run under the same key. It is requested after a delay. */
export interface Beside extends Alone {
  afterMs: number;
}

/** The flow control of a case: its workflow, and the other runs of the key. */
export interface Flow {
  is: Limited;
  beside: Beside[];
}

/** The names of a case's runs, of which none is a prefix of another. */
export function namesOf(flow: Flow | undefined, name: string): string[] {
  if (!flow) return [name];
  return [0, ...flow.beside].map((_, nth) => `${name.replace("proof-", `proof-${flow.is}-`)}.${nth}`);
}

/** The flow control of a run, by its name; undefined for none. */
const limitedBy = (name: string): Limited | undefined => LIMITED.find((one) => name.startsWith(`proof-${one}-`));

export const workflowOf = (name: string): string => `lab${ending("-", name)}`;
export const commandOf = (name: string): string => `lab.requested${ending(".", name)}`;

function ending(sign: string, name: string): string {
  const limited = limitedBy(name);
  return limited === undefined ? "" : sign + limited;
}

/** The key of a run in its workflow's flow control. */
export const keyOf = ({ name }: { name: string }): string => name.split(".")[0] ?? "";
