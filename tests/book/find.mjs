// Runs searches in the book: node find.mjs BOOK [PAGE,..]. Reads one query per line from the standard input, such as an error
// message, and prints the first three results of each. If pages are given, such as reference/errors.html, fails unless one of
// them has the first result of each query.
import { readFileSync, readdirSync } from 'node:fs';
import { runInThisContext } from 'node:vm';

const [book, pages] = process.argv.slice(2);
// The scripts of the book expect a browser.
globalThis.window = globalThis;
globalThis.lunr = undefined;
window.search = {};
for (const name of ['elasticlunr', 'searchindex', 'search']) {
    const file = readdirSync(book).find(file => file.startsWith(name + '-') && file.endsWith('.js'));
    runInThisContext(readFileSync(`${book}/${file}`, 'utf8'), file);
}
const { index, search_options: options, doc_urls: urls } = window.search;
const searcher = elasticlunr.Index.load(index);

let misses = 0;
for (const query of readFileSync(0, 'utf8').split('\n').filter(line => line.trim())) {
    const hits = searcher.search(query, options).map(({ ref, score }) => ({ url: urls[ref], score }));
    const right = !pages || pages.split(',').includes(hits[0]?.url.split('#')[0]);
    misses += right ? 0 : 1;
    console.log(`${right ? '' : 'NOT FIRST: '}${query}`);
    hits.slice(0, 3).forEach(({ url, score }) => console.log(`${score.toFixed(2).padStart(10)}  ${url}`));
}
process.exitCode = misses ? 1 : 0;
