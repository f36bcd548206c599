// What each panel opens with, in the language of the model.
const EXAMPLES = {
  en: {
    word: "bank",
    sentences: [
      "They walked along the bank of the river.",
      "The bank lent him the money.",
      "The bank paid the company two million dollars.",
    ],
    gap: "He was elected ___ of the United States .",
    candidates: "president, member, king, song",
    scored: "He was born in London and studied at the University of Oxford.",
    asked: "She opened a bank account.",
    tasks: {
      text: ["Free entry! Text WIN to 80086 now to claim your prize."],
      tags: ["Ada Lovelace was born in London."],
      pair: ["A man plays a guitar on the stage.", "A man makes music."],
      reading: ["Where was Ada Lovelace born?", "Ada Lovelace was born in London. She worked with Charles Babbage."],
      srl: ["She sold the old car to her neighbour."],
      coref: ["Ann feeds her dog. It barks at her."],
    },
  },
  ko: {
    word: "배",
    sentences: [
      "우리는 항구에서 배를 타고 섬으로 갔다.",
      "어부들은 배를 저어 바다로 나갔다.",
      "아침을 굶었더니 배가 고프다.",
    ],
    gap: "이 영화는 배우들의 ___가 정말 좋다.",
    candidates: "연기, 목소리, 학교, 바다",
    scored: "이 영화는 정말 재미있고 감동적이다.",
    asked: "그는 부산에서 배를 타고 떠났다.",
    tasks: {
      text: ["배우들의 연기가 좋아서 시간 가는 줄 몰랐다."],
      tags: ["김연아는 2010년 밴쿠버에서 금메달을 땄다."],
      pair: ["한 남자가 무대에서 기타를 연주한다.", "한 남자가 음악을 연주한다."],
      reading: ["세종대왕은 무엇을 만들었는가?", "세종대왕은 조선의 네 번째 왕이다. 그는 훈민정음을 만들었다."],
      srl: ["그는 이웃에게 낡은 차를 팔았다."],
      coref: ["영희는 개를 키운다. 그 개는 영희를 잘 따른다."],
    },
  },
};

export const examplesOf = (model) => EXAMPLES[model.script === "HANGUL" ? "ko" : "en"];

// Where a word is among the words of a sentence; with an ending, where words have theirs.
export function placeOf(word, words) {
  const exact = words.indexOf(word);
  return Math.max(0, exact >= 0 ? exact : words.findIndex((other) => other.startsWith(word)));
}
