import { contacts } from "./contacts.ts";
import type { Dataset } from "./dataset.ts";
import { facts } from "./facts.ts";

const ALL: readonly Dataset[] = [contacts, facts];

/** All datasets of batches. A new dataset is a file and an entry in this list. */
export const DATASETS: ReadonlyMap<string, Dataset> = new Map(ALL.map((dataset) => [dataset.name, dataset]));
