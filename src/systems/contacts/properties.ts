import type { Traces } from "./traces.ts";

/**
 * Properties that identify the contact itself, here and in the CRM. A household or an office may share these properties with a forgotten
 * person.
 */
const ITS_OWN = new Set(["email", "name", "firstname", "lastname", "phone", "mobilephone"]);

/**
 * Removes the traces of another person from the properties of a contact; returns the same object if the properties contain no traces. All
 * texts are searched except the contact's own identifying properties.
 */
export function withoutPerson<Value>(properties: Readonly<Record<string, Value>>, traces: Traces): Readonly<Record<string, Value>> {
  const entries = Object.entries(properties).map(([name, value]) => {
    if (typeof value !== "string" || ITS_OWN.has(name)) return [name, value] as const;
    return [name, traces.rewriteProperty(name, value) as Value] as const;
  });
  return entries.every(([name, value]) => value === properties[name]) ? properties : Object.fromEntries(entries);
}

/**
 * Removes the traces of another person from the properties of a stored contact. Property names are searched too, because they may contain a
 * person's name. The CRM's property names are not searched, because all contacts have the same property names there.
 */
export function renamedWithoutPerson<Value>(properties: Readonly<Record<string, Value>>, traces: Traces): Readonly<Record<string, Value>> {
  const rewritten = withoutPerson(properties, traces);
  const names = traces.renamed(Object.keys(properties));
  const isSame = [...names].every(([name, now]) => name === now);
  return isSame ? rewritten : Object.fromEntries(Object.entries(rewritten).map(([name, value]) => [names.get(name), value]));
}

/** Removes the traces of another person from the stored text of properties; returns the same text if nothing changes. */
export function textWithoutPerson(text: string, traces: Traces, without = withoutPerson<unknown>): string {
  const properties = JSON.parse(text) as Record<string, unknown>;
  const rewritten = without(properties, traces);
  return rewritten === properties ? text : JSON.stringify(rewritten);
}
