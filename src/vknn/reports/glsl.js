// GLSL with specialization constants written in, as the driver gets it.

const CONSTANT = /layout\s*\(\s*constant_id\s*=\s*(\d+)\s*\)\s*const\s+(\w+)\s+(\w+)\s*=\s*([^;]*);/;
const LOCAL = /local_size_([xyz])_id\s*=\s*(\d+)/g;
const PLACE = /^\s*#\s*line\s+(\d+)\s+"(.*)"\s*$/;

function literal(type, value) {
  if (type === "bool") return value && value !== "0" ? "true" : "false";
  if (type === "uint") return `${value}u`;
  const written = String(value);
  return type === "float" && /^-?\d+$/.test(written) ? `${written}.0` : written;
}

// Lines as {said, number, file, applied}; ``left``: constants that no line declares by its number.
function specialised(lines, constants) {
  const values = new Map(constants.map(([id, name, value]) => [id, { name, value }]));
  const used = new Set();
  let [file, number] = ["", 1];
  const found = [];
  for (const each of lines) {
    const place = PLACE.exec(each);
    if (place) {
      [number, file] = [Number(place[1]), place[2]];
      continue;
    }
    const said = each
      .replace(CONSTANT, (whole, id, type, name, standard) => {
        const constant = values.get(Number(id));
        if (!constant) return whole;
        used.add(Number(id));
        return `const ${type} ${name} = ${literal(type, constant.value)};  // constant ${id}, else ${standard.trim()}`;
      })
      .replace(LOCAL, (whole, axis, id) => {
        const constant = values.get(Number(id));
        if (!constant) return whole;
        used.add(Number(id));
        return `local_size_${axis} = ${constant.value}`;
      });
    found.push({ said, number, file, applied: said !== each });
    number += 1;
  }
  const left = constants.filter(([id]) => !used.has(id));
  return { lines: found, left };
}

// Consecutive lines of a file.
function stretches(lines) {
  const found = [];
  for (const each of lines) {
    const last = found[found.length - 1];
    if (last && last.file === each.file) last.lines.push(each);
    else found.push({ file: each.file, lines: [each] });
  }
  return found;
}
