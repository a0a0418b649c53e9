// Builds elements. Text goes in as text only: ids and models are strings of strangers.

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

export const html = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);

export const svg = (name, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, name), attributes, children);

export const byId = (id) => document.getElementById(id);

/** Sets the text where it changes: a live region would tell it again. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Puts the children in this order. Those that are there already are not taken out, so they keep the focus. */
export function setChildren(parent, children) {
  children.forEach((child, at) => {
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] ?? null);
  });
  while (parent.children.length > children.length) parent.lastElementChild.remove();
}

/** Replaces the options of a select where they change, and chooses one. */
export function setOptions(select, options, chosen) {
  const now = Array.from(select.options, (option) => [option.value, option.text]);
  if (JSON.stringify(now) !== JSON.stringify(options)) {
    select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
  }
  select.value = chosen;
}
