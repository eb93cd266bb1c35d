/*
 * dom: makes elements, and changes them in place, so that an update costs no focus, no selection and no place on the page.
 *
 * Text from outside becomes text nodes only. Nothing here, or elsewhere, sets HTML.
 */

const SVG = "http://www.w3.org/2000/svg";

function byId(id) {
  return document.getElementById(id);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {}))
    if (name.startsWith("on"))
      element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      element.setAttribute(name, value === true ? "" : value);
  element.append(...children);
  return element;
}

function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/* A text that others chose, kept apart from what is around it; what cannot be seen is marked. */
function foreign(text, keep) {
  const element = el("bdi");
  pieces(text, keep).forEach((piece, i) => {
    if (piece !== "")
      element.append(i % 2 === 0 || keep?.includes(piece) ? piece : el("span", { class: "escape" }, piece));
  });
  return element;
}

function selecting(element) {
  const selection = getSelection();
  return selection && !selection.isCollapsed && selection.containsNode(element, true);
}

/* The element's only text. A text that is being selected stays as it is. */
function setText(element, text) {
  const node = element.firstChild;
  if (node === null)
    element.append(text);
  else if (node.data !== text && !selecting(node))
    node.data = text;
}

/* Anything that is made anew only when `key` changes. */
function setOnce(element, key, make) {
  if (element.shown === key || (element.shown !== undefined && (selecting(element) || element.contains(document.activeElement))))
    return;
  element.shown = key;
  element.replaceChildren(...[make()].flat());
}

function setAttribute(element, name, value) {
  if (value === null || value === undefined)
    element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value))
    element.setAttribute(name, value);
}

function setHidden(element, hidden) {
  if (element.hidden !== hidden)
    element.hidden = hidden;
}

/*
 * The children of `parent` for these items, in their order; a child whose key stays is kept. A child with the focus is not moved:
 * the others are, around it. If it goes, the focus goes to its neighbour.
 */
function keyed(parent, items, keyOf, make, update) {
  const old = parent.keyed ?? new Map();
  const list = [], now = new Map();
  for (const item of items) {
    const key = keyOf(item);
    if (now.has(key))
      continue;
    const node = old.get(key) ?? make(item);
    update?.(node, item);
    now.set(key, node);
    list.push(node);
  }
  parent.keyed = now;
  const focused = parent.contains(document.activeElement) ? [...parent.children].find(child => child.contains(document.activeElement)) : null;
  let pivot = focused ? list.indexOf(focused) : -1;
  const lost = focused && pivot < 0 ? [...parent.children].indexOf(focused) : -1;
  for (const [key, node] of old)
    if (now.get(key) !== node)
      node.remove();
  for (let i = pivot - 1; i >= 0; i--)
    if (list[i].nextSibling !== list[i + 1])
      parent.insertBefore(list[i], list[i + 1]);
  for (let i = Math.max(pivot, 0); i < list.length; i++) {
    const before = i === 0 ? null : list[i - 1];
    const place = before ? before.nextSibling : parent.firstChild;
    if (place !== list[i])
      parent.insertBefore(list[i], place);
  }
  if (lost >= 0 && list.length > 0)
    (list[Math.min(lost, list.length - 1)].querySelector("a, button, [tabindex]") ?? byId("main")).focus({ preventScroll: true });
  else if (lost >= 0)
    byId("main").focus({ preventScroll: true });
  return list;
}
