import mermaidScript from "@mermaid-js/tiny/dist/mermaid.tiny.js?url";
import { useData } from "vitepress";
import { defineComponent, h, onMounted, ref, useId, watch } from "vue";
import "./diagram.css";

/** The global object of the Mermaid script. */
interface Mermaid {
  initialize(options: object): void;
  render(id: string, source: string): Promise<{ svg: string }>;
}

/** Labels of a diagram are SVG text and never HTML. The directives in a diagram's source must not change this option. */
const OPTIONS = {
  startOnLoad: false,
  securityLevel: "strict",
  htmlLabels: false,
  secure: ["secure", "securityLevel", "startOnLoad", "maxTextSize", "suppressErrorRendering", "maxEdges", "htmlLabels"],
  suppressErrorRendering: true,
  fontFamily: "inherit",
  look: "classic",
  flowchart: { wrappingWidth: 300 },
};

let loading: Promise<Mermaid> | undefined;

/** Loads the Mermaid script on the first page with a diagram. Mermaid must be a classic script, because it sets a global variable. */
function loadMermaid(): Promise<Mermaid> {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = mermaidScript;
    script.onload = () => resolve((globalThis as unknown as { mermaid: Mermaid }).mermaid);
    script.onerror = () => reject(new Error(`${mermaidScript} was not loaded, so diagrams are shown as text. Load the page again.`));
    document.head.append(script);
  });
  return loading;
}

/**
 * Shows a diagram as a picture, with the diagram's source below. If JavaScript is disabled, or if the diagram's source has an error, the
 * page shows only the source.
 */
export const Diagram = defineComponent({
  props: { label: { type: String, required: true } },
  setup(props, { slots }) {
    const { isDark } = useData();
    const id = useId();
    const [picture, source] = [ref<HTMLElement>(), ref<HTMLElement>()];
    const isDrawn = ref(false);

    const themeNow = () => (isDark.value ? "dark" : "neutral");

    async function draw(): Promise<void> {
      const theme = themeNow();
      const mermaid = await loadMermaid();
      mermaid.initialize({ ...OPTIONS, theme });
      const { svg } = await mermaid.render(`diagram-${id}`, source.value?.querySelector("code")?.textContent ?? "");
      if (!picture.value || theme !== themeNow()) return;
      picture.value.innerHTML = svg;
      const drawing = picture.value.querySelector("svg");
      drawing?.setAttribute("aria-hidden", "true");
      if (drawing) drawing.style.minWidth = `calc(0.7 * ${drawing.style.maxWidth})`;
      isDrawn.value = true;
    }

    onMounted(draw);
    watch(isDark, draw);
    return () =>
      h("div", { class: "diagram" }, [
        h("div", { ref: picture, role: "img", "aria-label": props.label, tabindex: 0, hidden: !isDrawn.value }),
        h("details", { open: !isDrawn.value }, [h("summary", "Diagram as text"), h("div", { ref: source }, slots.default?.())]),
      ]);
  },
});
