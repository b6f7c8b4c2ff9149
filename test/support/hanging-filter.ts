/** Whether `s` has only the letter a: takes longer than anyone waits for 40 of them, and no time for a few. */
const letters = 'record.s.split("")'
export const hangs = ['a', 'b', 'c', 'd', 'e', 'f'].reduceRight(
  (inner, name) => `${letters}.all(${name}, ${inner})`,
  'a == "a"',
)
