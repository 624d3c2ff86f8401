import { SaxesParser } from "saxes";

/** An XML element. */
export interface Element {
  name: string;
  attributes: Record<string, string>;
  children: Element[];
  text: string;
}

/** Parses an XML document strictly. Errors: for anything that XML 1.0 or its namespaces forbid. */
export function parseXml(xml: string): Element {
  const root: Element = { name: "", attributes: {}, children: [], text: "" };
  const open = [root];
  const parser = new SaxesParser({ xmlns: true });
  parser.on("error", (error) => {
    throw error;
  });
  parser.on("opentag", ({ name, attributes }) => {
    const values = Object.entries(attributes).map(([key, { value }]) => [key, value]);
    const element = { name, attributes: Object.fromEntries(values), children: [], text: "" };
    open.at(-1)?.children.push(element);
    open.push(element);
  });
  parser.on("text", (text) => {
    const element = open.at(-1);
    if (element) element.text += text;
  });
  parser.on("closetag", () => open.pop());
  parser.write(xml).close();
  return root.children[0] ?? root;
}

export function child(element: Element, name: string): Element {
  const [found, ...others] = element.children.filter((one) => one.name === name);
  if (!found || others.length > 0) throw new Error(`<${element.name}> has ${others.length + (found ? 1 : 0)} <${name}> instead of one.`);
  return found;
}
