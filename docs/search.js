// Improves mdBook's search, which knows single words only, for what users paste: messages, and names of functions and settings.
'use strict';

(() => {
    const NAME = /^\s*(snowflake_(?:id|registry)\.(?=\w+)|(?=\w+_))(\w+)(\([^()]*\))?\s*;?\s*$/;
    /** How much a phrase of three or two words counts, and how much makes a query a message. */
    const VALUES = [[3, 1], [2, 0.3]];
    const LEAST = 1.5;

    // Numbers and quoted names vary. In the list of all messages, % stands for them.
    const words = text => text.toLowerCase().replace(/"[^"\n]{1,60}"|\d[\d.:-]*|%/g, ' # ').match(/[\p{L}_]+|#/gu) ?? [];
    const inOneLine = text => ` ${words(text).join(' ')} `;
    const phrases = query => VALUES.flatMap(([length, value]) => words(query).slice(length - 1)
        .map((_, at) => ({ phrase: ` ${words(query).slice(at, at + length).join(' ')} `, value })));
    const sum = phrases => phrases.reduce((sum, { value }) => sum + value, 0);
    const sumIn = (text, phrases) => sum(phrases.filter(({ phrase }) => text.includes(phrase)));

    /** Sorts by descending value. Elements of the same value stay in their order. */
    const sort = (elements, valueOf) => elements
        .map(element => ({ element, value: valueOf(element) }))
        .sort((one, other) => other.value - one.value)
        .map(({ element }) => element);

    const texts = new Map();
    const textOf = ({ ref, doc }) => {
        if (!texts.has(ref)) {
            texts.set(ref, inOneLine(`${doc.title} ${doc.body}`));
        }
        return texts.get(ref);
    };
    const isOn = (result, page) => window.search.doc_urls[result.ref].startsWith(page);

    const { search } = elasticlunr.Index.prototype;
    elasticlunr.Index.prototype.search = function(query, options) {
        const name = query.match(NAME)?.[2];
        if (name) {
            // The reference of settings has their full names.
            const setting = `snowflake_id.${name}`;
            return sort(search.call(this, `${name} ${setting}`, options), result =>
                isOn(result, 'reference/settings.html') && result.doc.body.includes(setting) ? 3
                    : isOn(result, 'reference/') && result.doc.body.includes('function returns volatility') && result.doc.body.includes(` ${name}(`) ? 2
                        : isOn(result, 'reference/') ? 1 : 0);
        }
        const wanted = phrases(query);
        // What DETAIL and HINT say is in other messages, too.
        const first = phrases(query.split(/(?:DETAIL|HINT|CONTEXT|STATEMENT):/)[0]);
        const results = search.call(this, query, options);
        if (sum(wanted) < LEAST) {
            return results;
        }
        const sorted = sort(results, result => {
            const found = sumIn(textOf(result), wanted) + 9 * (first.length < wanted.length ? sumIn(textOf(result), first) : 0);
            // Other pages quote messages, too. The list of all messages has less about each of them.
            const bonus = isOn(result, 'reference/errors.html') ? 0.5 : isOn(result, 'reference/messages.html') ? 0.25 : 0;
            return found < LEAST ? 0 : found + (found > 2 ? bonus : 0);
        });
        // A message of the list that errors.md explains.
        if (sorted.length && isOn(sorted[0], 'reference/messages.html') && sorted[0].doc.body.endsWith('See: Errors')) {
            const at = sorted.findIndex(result => isOn(result, 'reference/errors.html'));
            if (at > 0) {
                sorted.unshift(...sorted.splice(at, 1));
            }
        }
        return sorted;
    };

    // On the page of a result, mdBook marks each word of the query. If the query is a message, this marks the heading, the row
    // or the paragraph that has it instead.
    const showMessage = () => {
        const wanted = phrases(new URLSearchParams(location.search).get('highlight') ?? '');
        const heading = document.getElementById(decodeURIComponent(location.hash.slice(1)));
        const places = [...document.querySelectorAll('main :is(h3, tr, p, li, pre)')]
            .filter(place => !heading || place === heading
                || heading.compareDocumentPosition(place) & Node.DOCUMENT_POSITION_FOLLOWING);
        const valueOf = place => sumIn(inOneLine(place.innerText), wanted);
        const [best] = sort(places, valueOf);
        if (best && valueOf(best) >= LEAST) {
            new Mark(document.querySelector('main')).unmark();
            best.classList.add('found');
            best.scrollIntoView({ block: 'center' });
        }
    };
    if (typeof document !== 'undefined' && location.search.includes('highlight=')) {
        // Two frames after the fonts are there, page.js has stacked the tables.
        const later = then => requestAnimationFrame(() => requestAnimationFrame(then));
        addEventListener('load', () => document.fonts.ready.then(() => later(showMessage)));
    }
})();
