import { contacts } from "./contacts.ts";
import type { Dataset } from "./dataset.ts";
import { facts } from "./facts.ts";

const ALL: readonly Dataset[] = [contacts, facts];

/** All datasets of batches. To add a dataset, write the dataset's file and add an entry to this list. */
export const DATASETS: ReadonlyMap<string, Dataset> = new Map(ALL.map((dataset) => [dataset.name, dataset]));
