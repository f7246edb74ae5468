// Templates and hooks for every module: `html` escapes whatever is put into it, as text and as attributes.
import { Component, Fragment, createContext, h, render } from "../../vendor/preact-10.29.8.js";
import htm from "../../vendor/htm-3.1.1.js";

export {
  useCallback,
  useContext,
  useEffect,
  useErrorBoundary,
  useId,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from "../../vendor/preact-hooks-10.29.8.js";
export { Component, Fragment, createContext, h, render };

// Words of agents and models reach attributes, too: no element may be made of raw markup, and no link may run a script.
const FORBIDDEN = "dangerouslySetInnerHTML";
const ADDRESSES = new Set(["href", "src", "action", "formAction", "xlinkHref", "srcdoc"]);
const SAFE = /^(?:#|\/(?![/\\\s])|blob:|data:image\/(?:png|jpeg|gif|webp);)/i;

function guarded(type, props, ...children) {
  if (props && typeof type === "string") {
    for (const name in props) {
      if (name === FORBIDDEN) throw new Error(`${FORBIDDEN} is not used here`);
      if (ADDRESSES.has(name) && typeof props[name] === "string" && !SAFE.test(props[name])) {
        props = { ...props, [name]: undefined };
      }
    }
  }
  return h(type, props, ...children);
}

export const html = htm.bind(guarded);

// Class names of what holds: cls("row", selected && "selected").
export const cls = (...names) => names.filter(Boolean).join(" ");
