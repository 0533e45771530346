// What the page of a cross-check knows: no profile, so there are no commands.

const data = JSON.parse(document.getElementById("data").textContent);
const commands = [];
