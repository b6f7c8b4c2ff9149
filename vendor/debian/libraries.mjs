/**
 * The C and C++ libraries of Debian that binaries are linked to, in the versions that their symbols ask for. Not by
 * dpkg-shlibdeps: it knows those of this machine alone, and a binary may be for another processor, or a newer C library.
 */
import { execFileSync } from 'node:child_process'

/** Maps the N in GLIBCXX_3.4.N to the version of GCC whose libstdc++ introduced it. Debian 12 has 12. */
const withSymbols = { 30: '12', 31: '13.1', 32: '13.2', 33: '14', 34: '15' }
const packages = [
  {
    library: /^(lib(c|m|dl|pthread|rt)|ld-linux(-x86-64|-aarch64))\.so\.\d$/,
    name: 'libc6',
    symbol: /\bGLIBC_2\.(\d+)/g,
    since: (newest) => `2.${newest}`,
  },
  {
    library: /^libstdc\+\+\.so\.6$/,
    name: 'libstdc++6',
    symbol: /\bGLIBCXX_3\.4\.(\d+)/g,
    since: (newest) => (newest < 30 ? '11' : withSymbols[newest]),
  },
  { library: /^libgcc_s\.so\.1$/, name: 'libgcc-s1', symbol: /\bGCC_(\d+)/g, since: () => '3.4' },
]

/** As in a field of debian/control. Throws where a library or a symbol is of no package named here. */
export function librariesOf(binaries) {
  const headers = binaries
    .map((file) => execFileSync('objdump', ['-p', file], { encoding: 'latin1' }))
    .join('\n')
  const libraries = [...headers.matchAll(/^ +NEEDED +(\S+)$/gm)].map(([, name]) => name)
  const strange = libraries.find((one) => !packages.some(({ library }) => library.test(one)))
  if (strange !== undefined) throw new Error(`no package is known that has ${strange}`)
  return packages
    .filter(({ library }) => libraries.some((one) => library.test(one)))
    .map(({ name, symbol, since }) => {
      const newest = Math.max(...[...headers.matchAll(symbol)].map(([, number]) => Number(number)))
      const version = since(newest)
      if (version === undefined) throw new Error(`no version of ${name} is known that has ${newest}`)
      return `${name} (>= ${version})`
    })
    .join(', ')
}
