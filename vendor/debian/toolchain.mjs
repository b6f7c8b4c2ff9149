/** The compiler and its tools for a processor: this machine's own, or Debian's for another. */
const prefixes = { x64: 'x86_64-linux-gnu-', arm64: 'aarch64-linux-gnu-' }

/** `arch` as in process.arch. */
export function tool(name, arch) {
  return arch === process.arch ? name : `${prefixes[arch]}${name}`
}

/** As variables for node-gyp; for this machine's processor what is set stays. */
export function compilers(arch) {
  if (arch === process.arch) return {}
  const cxx = tool('g++', arch)
  return { CC: tool('gcc', arch), CXX: cxx, LINK: cxx, AR: tool('ar', arch) }
}
