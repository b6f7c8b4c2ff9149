/** Node's flags for a child process that runs a file of test/ or src/: in dist-test/ they are JavaScript. */
export const childFlags: readonly string[] = import.meta.url.endsWith('.ts') ? ['--import=tsx'] : []
