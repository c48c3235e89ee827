// Builds elements without innerHTML, so that no text of the node's can become markup.

/** Make an element: element("p", { class: "dim" }, "text", child). Absent attributes and children are left out. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

/** Set a text only when it changed, so that screen readers and selections are left in peace. */
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

export const byId = (id) => document.getElementById(id);
