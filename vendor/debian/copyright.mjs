/**
 * debian/copyright (DEP-5) of the package: the project's licence, Node.js, and every npm package of which something is in it,
 * made of the text of THIRD-PARTY-LICENSES.
 */

const rule = /\n\n-{80}\n\n/
const packageLine = /^(\S+) (\S+) \((\S+)\)$/
const holder = /^copyright\b.*(\d{4}|\(c\)|©)/i

/** Throws where the text is not as third-party-licenses.mjs writes it. */
export function copyright(thirdPartyLicenses) {
  const [, ...parts] = thirdPartyLicenses.trim().split(rule)
  const used = new Map()
  return `${[header, ...parts.map((part) => stanza(part, used)), apache].join('\n\n')}\n`
}

const header = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: pipectl
Source: the source tree of pipectl; Node.js and the packages below come from the npm registry
Comment: Most of the packages of others were bundled into files of the program. Each is named
 below as if it had a folder of its own. Their texts and notices as they came:
 /usr/share/doc/pipectl/THIRD-PARTY-LICENSES.gz

Files: *
Copyright: the authors of pipectl
License: Apache-2.0

Files: usr/lib/pipectl/node
Copyright: Node.js contributors, and the authors of the libraries it contains
License: MIT-and-others-of-Node.js
 Node.js is under the MIT licence; what it contains is under licences of its own. All texts:
 /usr/share/doc/pipectl/LICENSE.node.gz`

/** The full text may not be repeated in a package of Debian. */
const apache = `License: Apache-2.0
 The text of this licence is in /usr/share/common-licenses/Apache-2.0`

/** Packages with the same text, and the text. */
function stanza(part, used) {
  const at = part.indexOf('\n\n')
  const packages = part.slice(0, at).split('\n').map(parsePackage)
  const lines = part.slice(at).replaceAll('\r', '').trim().split('\n')
  const holders = [...new Set(lines.map((line) => line.trim()).filter((line) => holder.test(line)))]
  if (holders.length === 0) holders.push(`the authors of ${packages.map(({ name }) => name).join(', ')}`)
  return [
    `Files: ${packages.map(({ name }) => `usr/lib/pipectl/node_modules/${name}/*`).join('\n ')}`,
    `Copyright: ${holders.join('\n ')}`,
    licence(packages[0].license, lines, used),
  ].join('\n')
}

function parsePackage(line) {
  const [, name, version, license] = packageLine.exec(line) ?? []
  if (license === undefined) throw new Error(`THIRD-PARTY-LICENSES: not a package: ${line}`)
  return { name, version, license }
}

/** A name stands for one text: the second with the same licence gets a number. */
function licence(name, lines, used) {
  if (name === 'Apache-2.0') return `License: ${name}`
  const count = (used.get(name) ?? 0) + 1
  used.set(name, count)
  const text = lines.map((line) => (line.trim() === '' ? ' .' : ` ${line.trimEnd()}`))
  return [`License: ${name}${count === 1 ? '' : `-variant-${count}`}`, ...text].join('\n')
}
