// What the pages' scripts share.
export const all = (selector, root = document) => [...root.querySelectorAll(selector)];
export const make = (name, properties = {}) => Object.assign(document.createElement(name), properties);
