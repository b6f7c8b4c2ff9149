/**
 * debian/copyright (DEP-5): the project's licence, Node.js, and every npm package that is in the program or was built into
 * it, with the text that came with it.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

/** Built into dist/dashboard by vite; the rest of the program's packages are its dependencies. */
const dashboard = [
  'react-dom',
  'wouter',
  'uplot',
  '@tanstack/react-query',
  '@radix-ui/react-dialog',
  '@radix-ui/react-dropdown-menu',
]
/** Debian has these texts at a known place, and they are not repeated. */
const common = { 'Apache-2.0': 'Apache-2.0', 'MPL-2.0': 'MPL-2.0' }

export function copyright(root) {
  const manifest = readManifest(root)
  const roots = [...Object.keys(manifest.dependencies), ...dashboard]
  const packages = closure(root, roots).sort((one, other) => (one.name < other.name ? -1 : 1))
  const texts = new Map()
  const stanzas = packages.map((one) => stanza(one, texts))
  const standalone = [...texts].map(([text, name]) => `License: ${name}\n${indented(text)}`)
  return `${[header(), ...stanzas, commonLicence('Apache-2.0'), ...(usesMpl(stanzas) ? [commonLicence('MPL-2.0')] : []), ...standalone].join('\n\n')}\n`
}

function header() {
  return `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: pipectl
Source: the source tree of pipectl; Node.js and the packages below come from the npm registry
Comment: The program holds packages of others. Some are in files of their own below
 /usr/lib/pipectl/node_modules, some were bundled into files of the program: each is named
 as if it had a folder of its own.

Files: *
Copyright: the authors of pipectl
License: Apache-2.0

Files: usr/lib/pipectl/node
Copyright: Node.js contributors, and the authors of the libraries it contains
License: MIT-and-others-of-Node.js
 Node.js is under the MIT licence; what it contains is under licences of its own. All texts:
 /usr/share/doc/pipectl/LICENSE.node`
}

function commonLicence(name) {
  return `License: ${name}\n The text of this licence is in /usr/share/common-licenses/${common[name]}`
}

function usesMpl(stanzas) {
  return stanzas.some((one) => one.includes('License: MPL-2.0'))
}

/** Every package that the roots need, as it is installed here; an optional one that is not installed is none. */
function closure(root, roots) {
  const found = new Map()
  const visit = (name, from) => {
    const folder = resolve(name, from)
    if (folder === null || found.has(folder)) return
    const manifest = readManifest(folder)
    found.set(folder, { name, manifest, folder })
    const needs = { ...manifest.dependencies, ...manifest.optionalDependencies, ...manifest.peerDependencies }
    for (const needed of Object.keys(needs)) if (!needed.startsWith('@types/')) visit(needed, folder)
  }
  for (const name of roots) visit(name, root)
  // Several versions of a package have one text.
  return [...new Map([...found.values()].map((one) => [one.name, one])).values()]
}

function resolve(name, from) {
  for (let folder = from; folder !== path.dirname(folder); folder = path.dirname(folder)) {
    const candidate = path.join(folder, 'node_modules', name)
    if (existsSync(path.join(candidate, 'package.json'))) return candidate
  }
  return null
}

function readManifest(folder) {
  return JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'))
}

function stanza({ name, manifest, folder }, texts) {
  const text = licenceText(folder)
  const holders = holdersIn(text)
  if (holders.length === 0) holders.push(`the authors of ${name}${author(manifest)}`)
  const licence = licenceName(String(manifest.license ?? 'see-text'))
  const head = `Files: usr/lib/pipectl/node_modules/${name}/*\nCopyright: ${holders.join('\n ')}\n`
  return `${head}License: ${registered(licence, withoutHolders(text), texts)}`
}

/** Equal texts have one name: the first of a licence has the licence's, further ones a number. */
function registered(licence, text, texts) {
  if (licence in common || text === '') return licence
  const known = texts.get(text)
  if (known !== undefined) return known
  const others = [...texts.values()].filter(
    (one) => one === licence || one.startsWith(`${licence}-variant-`),
  ).length
  const name = others === 0 ? licence : `${licence}-variant-${others + 1}`
  texts.set(text, name)
  return name
}

function licenceName(spdx) {
  return spdx.replace(/[()]/g, '').replaceAll(' OR ', ' or ').replaceAll(' AND ', ' and ')
}

function licenceText(folder) {
  const file = readdirSync(folder).find((one) => /^(licen[cs]e|copying)(\.|-|$)/i.test(one))
  return file === undefined ? '' : readFileSync(path.join(folder, file), 'utf8').replaceAll('\r', '')
}

function holdersIn(text) {
  const lines = text.split('\n').map((line) => line.trim())
  return [...new Set(lines.filter((line) => /^copyright\b.*(\d{4}|\(c\)|©)/i.test(line)))].slice(0, 20)
}

function withoutHolders(text) {
  const lines = text.split('\n').map((line) => line.trim())
  const kept = lines.filter((line) => !/^copyright\b.*(\d{4}|\(c\)|©)/i.test(line))
  return kept
    .join('\n')
    .replace(/\n{2,}/g, '\n\n')
    .trim()
}

function author({ author: given }) {
  const name = typeof given === 'string' ? given.replace(/[<(].*/, '').trim() : given?.name
  return name ? ` (${name})` : ''
}

function indented(text) {
  return text
    .split('\n')
    .map((line) => (line === '' ? ' .' : ` ${line}`))
    .join('\n')
}
