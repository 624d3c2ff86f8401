import type { Traces } from "./traces.ts";

/**
 * Properties by which a contact itself is reached and called, here and in the CRM: a household or an office may share them with somebody
 * who is forgotten.
 */
const ITS_OWN = new Set(["email", "name", "firstname", "lastname", "phone", "mobilephone"]);

/**
 * The properties of a contact without what they say of somebody else; the same object where that is nothing. Every text is searched,
 * whatever a tenant calls it, but for those by which the contact itself is reached and called.
 */
export function withoutPerson<Value>(properties: Readonly<Record<string, Value>>, traces: Traces): Readonly<Record<string, Value>> {
  const entries = Object.entries(properties).map(([name, value]) => {
    if (typeof value !== "string" || ITS_OWN.has(name)) return [name, value] as const;
    return [name, traces.rewriteProperty(name, value) as Value] as const;
  });
  return entries.every(([name, value]) => value === properties[name]) ? properties : Object.fromEntries(entries);
}

/**
 * The same of what we keep of a contact ourselves: what its properties are called may name somebody too. Those of the CRM are called so for
 * everybody.
 */
export function renamedWithoutPerson<Value>(properties: Readonly<Record<string, Value>>, traces: Traces): Readonly<Record<string, Value>> {
  const rewritten = withoutPerson(properties, traces);
  const names = traces.renamed(Object.keys(properties));
  const isSame = [...names].every(([name, now]) => name === now);
  return isSame ? rewritten : Object.fromEntries(Object.entries(rewritten).map(([name, value]) => [names.get(name), value]));
}

/** The same of properties that are kept as text: the text itself where nothing in it is meant. */
export function textWithoutPerson(text: string, traces: Traces, without = withoutPerson<unknown>): string {
  const properties = JSON.parse(text) as Record<string, unknown>;
  const rewritten = without(properties, traces);
  return rewritten === properties ? text : JSON.stringify(rewritten);
}
